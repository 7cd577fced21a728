//! Options of the engine from keyword arguments, by the names that the engine has for them.

use super::convert::{from_python, to_python};
use crate::errors::{Face, invalid};
use esker::{KeyOrder, KeyspaceOptions, Options};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Where the options of keyspaces stand inside those of the database.
const KEYSPACE: &str = "default_keyspace";

/// Where those of single keyspaces do.
const KEYSPACES: &str = "keyspaces";

/// Every option with its value in a preset: what `open` takes by these names.
#[pyfunction]
#[pyo3(signature = (preset="default"))]
pub(super) fn options<'py>(py: Python<'py>, preset: &str) -> PyResult<Bound<'py, PyAny>> {
    let options = Options::preset(preset).map_err(|error| Face::Own.error(py, &error))?;
    let mut tree = tree(py, &options)?;
    tree.remove(KEYSPACES);
    if let Some(Value::Object(inner)) = tree.remove(KEYSPACE) {
        tree.extend(inner);
    }
    to_python(py, &Value::Object(tree))
}

/// The options of a database: a preset, and what is given beside it.
///
/// # Errors
/// `InvalidArgumentError` naming the option: an unknown name, with those that there are, or a value
/// that it cannot have.
pub(super) fn of_database(
    py: Python<'_>,
    preset: &str,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Options> {
    let base = Options::preset(preset).map_err(|error| Face::Own.error(py, &error))?;
    let mut tree = tree(py, &base)?;
    let mut keyspaces = None;
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        if name == KEYSPACES {
            keyspaces = Some(value);
        } else {
            set::<Options>(py, &mut tree, &name, &value, Some(KEYSPACE))?;
        }
    }
    if let Some(keyspaces) = keyspaces {
        let each = of_each(py, &tree, &keyspaces)?;
        tree.insert(KEYSPACES.to_owned(), Value::Object(each));
    }
    let options: Options = parsed(py, tree)?;
    options.validate().map_err(|error| Face::Own.error(py, &error))?;
    Ok(options)
}

/// Gives all keyspaces the order that arguments ask for: an order is no option by name.
pub(super) fn set_order(options: &mut Options, order: &KeyOrder) {
    for keyspace in options.keyspaces.values_mut() {
        keyspace.order = order.clone();
    }
    options.default_keyspace.order = order.clone();
}

/// The options of single keyspaces, each over those of the default one.
fn of_each(
    py: Python<'_>,
    tree: &Map<String, Value>,
    given: &Bound<'_, PyAny>,
) -> PyResult<Map<String, Value>> {
    let what = "option keyspaces: give a dict of names and dicts of options";
    let given = given.cast::<PyDict>().map_err(|_| invalid(py, what))?;
    let mut all = Map::new();
    for (name, settings) in given {
        let settings = settings.cast::<PyDict>().map_err(|_| invalid(py, what))?;
        let mut inner = tree[KEYSPACE].as_object().cloned().unwrap_or_default();
        for (option, value) in settings {
            set::<KeyspaceOptions>(py, &mut inner, &option.extract::<String>()?, &value, None)?;
        }
        all.insert(name.extract()?, Value::Object(inner));
    }
    Ok(all)
}

/// The options of a keyspace: some that there are, and what is given beside them.
///
/// # Errors
/// As [`of_database`].
pub(super) fn of_keyspace(
    py: Python<'_>,
    base: &KeyspaceOptions,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<KeyspaceOptions> {
    let mut tree = tree(py, base)?;
    for (name, value) in given.into_iter().flatten() {
        set::<KeyspaceOptions>(py, &mut tree, &name.extract::<String>()?, &value, None)?;
    }
    let options: KeyspaceOptions = parsed(py, tree)?;
    options.validate().map_err(|error| Face::Own.error(py, &error))?;
    // An order is no text, and no option by name.
    Ok(KeyspaceOptions { order: base.order.clone(), ..options })
}

fn tree(py: Python<'_>, options: &impl Serialize) -> PyResult<Map<String, Value>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(tree)) => Ok(tree),
        Ok(_) => Err(invalid(py, "options are no object")),
        Err(error) => Err(invalid(py, &format!("cannot write options: {error}"))),
    }
}

fn parsed<T: DeserializeOwned>(py: Python<'_>, tree: Map<String, Value>) -> PyResult<T> {
    serde_json::from_value(Value::Object(tree)).map_err(|error| invalid(py, &error.to_string()))
}

/// Sets an option where it stands: at the top, or `below` it.
fn set<T: DeserializeOwned>(
    py: Python<'_>,
    tree: &mut Map<String, Value>,
    name: &str,
    given: &Bound<'_, PyAny>,
    below: Option<&str>,
) -> PyResult<()> {
    let is_option = |name: &str| name != KEYSPACE && name != KEYSPACES;
    let place = match tree.contains_key(name) {
        true if is_option(name) => tree.get_mut(name),
        true => None,
        false => below.and_then(|below| tree.get_mut(below)).and_then(|inner| inner.get_mut(name)),
    };
    let Some(place) = place else {
        let inner = below.and_then(|below| tree.get(below)).and_then(Value::as_object);
        let inner = inner.into_iter().flat_map(Map::keys);
        let names = tree.keys().filter(|name| is_option(name)).chain(inner);
        let names: Vec<&str> = names.map(String::as_str).collect();
        return Err(invalid(py, &format!("no option {name:?}: use one of {}", names.join(", "))));
    };
    let value = match (from_python(name, given)?, place.is_array()) {
        (Value::Array(items), _) => Value::Array(items.into_iter().map(choice).collect()),
        (value, true) => Value::Array(vec![choice(value)]),
        (value, false) => choice(value),
    };
    // Tried on its own, so that the message names the option.
    let before = std::mem::replace(place, value);
    if let Err(error) = serde_json::from_value::<T>(Value::Object(tree.clone())) {
        let given = given.repr()?;
        return Err(invalid(py, &format!("option {name} = {given}: {error}, such as {before}")));
    }
    Ok(())
}

/// A choice with a number, as the command has it: `zstd:3`, `bloom:10`, `time-slice:8000`,
/// `fixed:4`, `delimiter:/`.
fn choice(given: Value) -> Value {
    let Value::String(word) = &given else { return given };
    let number = |digits: &str| digits.parse::<i64>().map_or(json!(digits), |number| json!(number));
    match word.split_once(':') {
        // As long as it takes.
        None if word == "time-slice" => json!({ "time-slice": {} }),
        Some(("zstd", level)) => json!({ "zstd": { "level": number(level) } }),
        Some(("bloom", bits)) => json!({ "bloom": { "bits_per_key": number(bits) } }),
        Some(("time-slice", ms)) => json!({ "time-slice": { "slice_ms": number(ms) } }),
        Some(("fixed", bytes)) => json!({ "fixed": { "bytes": number(bytes) } }),
        Some(("delimiter", end)) => match end.as_bytes() {
            [byte] => json!({ "delimiter": { "byte": byte } }),
            _ => given,
        },
        _ => given,
    }
}
