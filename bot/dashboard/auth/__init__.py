"""Who reads the pages and who may change something: GitHub sign-in, repository permission, CSRF tokens."""
