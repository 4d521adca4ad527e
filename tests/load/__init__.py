"""How much the service bears, beside a bare application that only verifies and answers."""
