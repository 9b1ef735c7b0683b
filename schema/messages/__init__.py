"""Messages at the API: types, receipts, history, editing and recalling. Sending is in `schema.sending`."""
