"""JSON-RPC over byte streams: lines in bounded memory, file descriptors, and the SDK's message streams."""
