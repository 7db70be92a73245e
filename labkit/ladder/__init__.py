"""The ladder: rungs (`rungs`), their variants (`variants`), and plans that run them (`plan`)."""
