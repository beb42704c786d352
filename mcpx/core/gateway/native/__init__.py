"""Resources, prompts and completion of all servers as the protocol has them."""
