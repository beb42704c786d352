"""The views of the page: each module has `routes`, its requests, and `TOPICS`, what it can be told of."""
