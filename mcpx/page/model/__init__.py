"""What a client's model is shown (`texts`), and what a search of its finds (`search`), for `views/model`."""
