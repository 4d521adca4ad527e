"""Making the service's GitHub App from its own pages (GitHub's manifest flow)."""
