//! Setting options by name, through their serialised form.
//!
//! Key orders and filter policies of the user's own have none: they are put aside, and stay as they
//! are.

use crate::value::value_like;
use esker::{Error, Filter, KeyOrder, KeyspaceOptions, Options, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Where the options of keyspaces stand inside those of the database.
pub(crate) const KEYSPACE: &str = "default_keyspace";

/// Sets options of a database, and of its keyspaces without options of their own.
///
/// # Errors
/// `InvalidArgument`: an unknown name, with the list of names; a value that is none, or out of
/// range. `options` are as they were.
pub fn apply(options: &mut Options, text: &str) -> Result<()> {
    apply_each(options, &split(text))
}

/// The same of settings that are parted already, one `name=value` each.
///
/// # Errors
/// As [`apply`].
pub fn apply_each(options: &mut Options, settings: &[String]) -> Result<()> {
    let mut changed = options.clone();
    let mut rest = Vec::new();
    for setting in settings {
        match setting.split_once('=') {
            Some((name, preset)) if name.trim() == "preset" => {
                changed = begin_anew(changed, preset.trim())?;
                rest.retain(|setting: &String| is_of_opening(setting));
            }
            _ => rest.push(setting.clone()),
        }
    }
    let own: Vec<(String, Own)> =
        changed.keyspaces.iter_mut().map(|(name, k)| (name.clone(), Own::take(k))).collect();
    let own_default = Own::take(&mut changed.default_keyspace);
    set_all(&mut changed, &rest)?;
    own_default.put_back(&mut changed.default_keyspace, &rest);
    for (name, own) in own {
        if let Some(keyspace) = changed.keyspaces.get_mut(&name) {
            own.put_back(keyspace, &[]);
        }
    }
    changed.validate()?;
    *options = changed;
    Ok(())
}

/// Whether a setting is of those that a preset says nothing of.
fn is_of_opening(setting: &str) -> bool {
    ["create_if_missing", "error_if_exists"].contains(&name_of(setting))
}

fn name_of(setting: &str) -> &str {
    setting.split_once('=').map_or(setting, |(name, _)| name).trim()
}

/// A preset, but for what it says nothing of: what is opened, and what is the user's own.
fn begin_anew(before: Options, preset: &str) -> Result<Options> {
    let preset = Options::preset(preset)?;
    let KeyspaceOptions { order, filter, .. } = before.default_keyspace;
    let filter = match filter {
        Filter::Custom(policy) => Filter::Custom(policy),
        _ => preset.default_keyspace.filter.clone(),
    };
    Ok(Options {
        create_if_missing: before.create_if_missing,
        error_if_exists: before.error_if_exists,
        default_keyspace: KeyspaceOptions { order, filter, ..preset.default_keyspace },
        keyspaces: before.keyspaces,
        ..preset
    })
}

/// Sets options of one keyspace.
///
/// # Errors
/// As [`apply`].
pub fn apply_to_keyspace(options: &mut KeyspaceOptions, text: &str) -> Result<()> {
    let mut changed = options.clone();
    let settings = split(text);
    let own = Own::take(&mut changed);
    set_all(&mut changed, &settings)?;
    own.put_back(&mut changed, &settings);
    changed.validate()?;
    *options = changed;
    Ok(())
}

/// What a keyspace has of the user's own.
struct Own {
    order: KeyOrder,
    filter: Option<Filter>,
}

impl Own {
    fn take(options: &mut KeyspaceOptions) -> Own {
        let custom = matches!(options.filter, Filter::Custom(_));
        let filter = custom.then(|| std::mem::replace(&mut options.filter, Filter::None));
        Own { order: std::mem::take(&mut options.order), filter }
    }

    fn put_back(self, options: &mut KeyspaceOptions, settings: &[String]) {
        options.order = self.order;
        if let Some(filter) = self.filter
            && !settings.iter().any(|setting| name_of(setting) == "filter")
        {
            options.filter = filter;
        }
    }
}

/// The settings of a text: it is cut at commas behind which a name follows, but for those in a
/// value that begins with a bracket or quote, up to the one that ends it.
pub fn split(text: &str) -> Vec<String> {
    let mut settings: Vec<String> = Vec::new();
    let (mut depth, mut quoted, mut start) = (0i32, false, 0);
    let mut take = |part: &str| match settings.last_mut() {
        Some(last) if !part.contains('=') => {
            last.push(',');
            last.push_str(part);
        }
        _ if part.trim().is_empty() => {}
        _ => settings.push(part.to_owned()),
    };
    for (at, c) in text.char_indices() {
        let begins_value = || {
            let value = text[start..at].split_once('=').map(|(_, value)| value);
            value.is_some_and(|value| value.trim().is_empty())
        };
        match c {
            '"' | '[' | '{' | ']' | '}' if depth == 0 && !quoted && !begins_value() => {}
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                take(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    take(&text[start..]);
    settings
}

fn set_all<T: Serialize + DeserializeOwned>(options: &mut T, settings: &[String]) -> Result<()> {
    let mut tree = to_tree(options)?;
    for setting in settings {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| Error::invalid(format!("option {setting}: write it as name=value")))?;
        set::<T>(&mut tree, name.trim(), value.trim())?;
    }
    *options = serde_json::from_value(Value::Object(tree))
        .map_err(|error| Error::invalid(format!("options: {error}")))?;
    Ok(())
}

pub(crate) fn to_tree(options: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(options) {
        Ok(Value::Object(tree)) => Ok(tree),
        Ok(_) => Err(Error::invalid("options are no object")),
        Err(error) => Err(Error::invalid(format!("cannot write options: {error}"))),
    }
}

fn set<T: DeserializeOwned>(tree: &mut Map<String, Value>, name: &str, typed: &str) -> Result<()> {
    let place = match tree.contains_key(name) {
        true => tree.get_mut(name),
        false => tree.get_mut(KEYSPACE).and_then(|keyspace| keyspace.get_mut(name)),
    };
    let Some(place) = place else {
        let names = names(tree).join(", ");
        return Err(Error::invalid(format!("no option {name:?}: use one of {names}")));
    };
    let value = value_like(place, typed).ok_or_else(|| {
        Error::invalid(format!("option {name}: {typed:?} is no value for it, such as {place}"))
    })?;
    // Tried on its own, so that the message names the option.
    let before = std::mem::replace(place, value);
    if let Err(error) = serde_json::from_value::<T>(Value::Object(tree.clone())) {
        return Err(Error::invalid(format!("option {name}={typed}: {error}, such as {before}")));
    }
    Ok(())
}

fn names(tree: &Map<String, Value>) -> Vec<&str> {
    let inner = tree.get(KEYSPACE).and_then(Value::as_object);
    let inner = inner.into_iter().flat_map(Map::keys);
    tree.keys().chain(inner).map(String::as_str).collect()
}

#[cfg(test)]
mod tests;
