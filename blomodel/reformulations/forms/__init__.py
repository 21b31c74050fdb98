"""Problems of one level as numbers, which methods minimise."""
