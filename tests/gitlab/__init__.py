"""A stateful fake GitLab that checks requests against GitLab's documentation, and finds quick actions in notes."""
