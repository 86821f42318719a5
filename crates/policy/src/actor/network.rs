//! A multi-layer perceptron in single precision.

use super::FEATURES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Relu,
    Tanh,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    pub inputs: usize,
    /// Input by input: the outputs that one input feeds lie together, which vectorises.
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
    pub activation: Activation,
}

/// μ(s): an observation goes in, an action in -1..=1 comes out.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    history: usize,
    layers: Vec<Layer>,
}

/// Widest layer: what [`Actor::act`] keeps on its stack.
pub(super) const WIDEST: usize = 256;

impl Actor {
    pub(super) fn new(history: usize, layers: Vec<Layer>) -> Actor {
        Actor { history, layers }
    }

    /// Monitor intervals in an observation.
    pub fn history(&self) -> usize {
        self.history
    }

    /// Numbers in an observation.
    pub fn inputs(&self) -> usize {
        FEATURES * self.history
    }

    /// The action. An observation of another length counts as cut off or filled up with zeros.
    pub fn act(&self, observation: &[f32]) -> f32 {
        let (mut from, mut to) = ([0f32; WIDEST], [0f32; WIDEST]);
        let given = observation.len().min(self.inputs());
        from[..given].copy_from_slice(&observation[..given]);
        for layer in &self.layers {
            let outputs = layer.bias.len();
            let sums = &mut to[..outputs];
            sums.copy_from_slice(&layer.bias);
            for (x, row) in from[..layer.inputs]
                .iter()
                .zip(layer.weights.chunks_exact(outputs))
            {
                for (sum, weight) in sums.iter_mut().zip(row) {
                    *sum += x * weight;
                }
            }
            match layer.activation {
                Activation::Relu => sums.iter_mut().for_each(|x| *x = x.max(0.0)),
                // libm: the same bits on every machine, as a simulation must have.
                Activation::Tanh => sums.iter_mut().for_each(|x| *x = libm::tanhf(*x)),
            }
            std::mem::swap(&mut from, &mut to);
        }
        from[0]
    }
}
