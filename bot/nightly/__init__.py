"""The nights of the service: what is kept, what is started, which episodes there are and what is said."""
