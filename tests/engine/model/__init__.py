"""A model of the delivery rules, and the tests that compare the engine with it."""
