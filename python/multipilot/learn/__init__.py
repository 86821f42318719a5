"""Training of the actor that steers ``ddpg-mpcc``: DDPG, TD3 and twin-average DDPG, in JAX.

networks   multi-layer perceptrons
actor      the actor's file
sb3        the same of a policy that Stable-Baselines3 trained
onnx       an actor's file as an ONNX model
replay     replay buffer, Ornstein-Uhlenbeck noise
ddpg, td3, twin_average   one algorithm each: settings, state, update
training   the loop: collect, learn, evaluate, save
evaluate   what an actor, or plain MPCC, does on given paths
curve      the learning curve as a picture
cli        ``multipilot train``
"""
