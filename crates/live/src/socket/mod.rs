//! WebSocket framing (RFC 6455).
