"""What CLI, API and page call. Rules live in `domain`, SQL in `store`; here a call becomes one transaction."""
