"""JSON-RPC over byte channels: descriptors on the event loop, bounded lines, envelopes, and a dispatcher.

This is the hot path: one call costs one read, one decode of an envelope and one write on each side. It is
asyncio's own reader and writer callbacks, not anyio streams, because a task and a memory stream for each
hop cost five times as much; the SDK's sessions drive everything rare on top of the same dispatcher.
"""
