"""``make demo-live``: trades through a broker and a Spark stream into a ticking engine, watched by its client."""
