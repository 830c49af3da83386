"""The findings of `queen doctor`."""
