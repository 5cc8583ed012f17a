"""What the writers of eval-set files share."""
