"""Asking models: the one client through which every judging model and every simulated user is asked."""
