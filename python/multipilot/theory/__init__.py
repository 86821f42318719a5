"""Theory of multipath congestion control: games, fluid models, stability and learning, on NumPy and SciPy.

    game         the rent-seeking game: utility, pseudo-gradient, diagonal strict concavity
    equilibrium  Nash and normalised equilibria, with their KKT residual
    fluid        differential equations of rates and prices, and of windows and queues
    prices       windows against prices: LD-MPSP's fluid and its equilibrium
    rules        each controller's right-hand side
    lyapunov     the Lyapunov function and its conditions
    learning     dual averaging with noisy gradients, and its regret

Every module states its equations, their units and where they come from.
"""
