"""Plans under (ε, δ) where occupancy is public: Gaussian noise, squares of μ that add up."""
