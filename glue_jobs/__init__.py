"""Jobs in bulk: thin shells over the same cores as the functions'. ``make job NAME=… ARGS=…`` runs one against the local stack."""
