"""How clients and the command line reach MCPX: stdio, the Unix socket, HTTP, and control."""
