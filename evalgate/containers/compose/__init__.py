"""A service of a Compose file as the agent, and the services that it depends on beside it.

`document` reads the file, `service` says what of a service is understood, `filling` and `envfile` give values
to variables, `specs` makes containers of services, `companions` runs those that the agent depends on.
"""
