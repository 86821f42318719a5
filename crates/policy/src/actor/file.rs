//! The actor's file: JSON, version 1. `docs/reference/learned-control.md` describes it.

use serde::Deserialize;

use super::network::{Activation, Actor, Layer, WIDEST};
use super::FEATURES;

const FORMAT: &str = "multipilot-actor";
const VERSION: u32 = 1;

/// What is wrong with an actor file, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Actor {
    /// Reads the text of an actor file ([format](../../../../docs/reference/learned-control.md#actor-file)).
    pub fn parse(text: &str) -> Result<Actor, Error> {
        read(text)
    }

    /// Reads an actor file; the error names it.
    pub fn open(path: &std::path::Path) -> Result<Actor, Error> {
        let named = |what: String| Error(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| {
            let why = match e.kind() {
                std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
                std::io::ErrorKind::InvalidData => "is no text".to_owned(),
                _ => e.to_string(),
            };
            named(format!(
                "{why}; give an actor that `multipilot train` wrote"
            ))
        })?;
        Actor::parse(&text).map_err(|e| named(e.to_string()))
    }
}

#[derive(Deserialize)]
struct File {
    format: String,
    version: u32,
    history: usize,
    layers: Vec<FileLayer>,
}

#[derive(Deserialize)]
struct FileLayer {
    activation: String,
    /// One row an input.
    weights: Vec<Vec<f32>>,
    bias: Vec<f32>,
}

fn read(text: &str) -> Result<Actor, Error> {
    let again = "train it again with `multipilot train`";
    let file: File =
        serde_json::from_str(text).map_err(|e| Error(format!("no actor file: {e}; {again}")))?;
    if file.format != FORMAT || file.version != VERSION {
        return Err(Error(format!(
            "format {:?} version {}: expected {FORMAT:?} version {VERSION}; {again}",
            file.format, file.version
        )));
    }
    if file.history == 0 || file.history * FEATURES > WIDEST {
        return Err(Error(format!(
            "history {}: expected 1 to {}; {again}",
            file.history,
            WIDEST / FEATURES
        )));
    }
    let count = file.layers.len();
    let mut inputs = FEATURES * file.history;
    let mut layers = Vec::new();
    for (k, layer) in file.layers.into_iter().enumerate() {
        let outputs = layer.bias.len();
        let widths_fit = layer.weights.iter().all(|row| row.len() == outputs);
        if layer.weights.len() != inputs || !widths_fit || !(1..=WIDEST).contains(&outputs) {
            return Err(Error(format!(
                "layer {k}: {} rows of weights and {outputs} biases, expected {inputs} rows of as many numbers as \
                 biases, at most {WIDEST}; {again}",
                layer.weights.len()
            )));
        }
        let weights = layer.weights.concat();
        let activation = match layer.activation.as_str() {
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            other => {
                return Err(Error(format!(
                    "layer {k}: activation {other:?}: expected \"relu\" or \"tanh\"; {again}"
                )))
            }
        };
        layers.push(Layer {
            inputs,
            weights,
            bias: layer.bias,
            activation,
        });
        inputs = outputs;
    }
    match layers.last() {
        Some(last) if last.bias.len() == 1 && last.activation == Activation::Tanh => {
            Ok(Actor::new(file.history, layers))
        }
        _ => Err(Error(format!(
            "{count} layers that do not end in one tanh: an action is one number in -1..=1; {again}"
        ))),
    }
}
