"""Start-up logs of LLM servers: written as vLLM prints them, read from whatever was printed."""
