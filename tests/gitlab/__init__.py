"""A stateful GitLab that holds a client to what GitLab documents of its REST API, and reads notes as GitLab does."""
