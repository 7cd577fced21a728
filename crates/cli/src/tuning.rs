//! Engine options from the command line: a preset, and single options by name.

use crate::failure::{Failure, Result};
use clap::Args;
use esker::Options;
use esker_settings::PRESETS;

/// Options of the engine.
#[derive(Args, Clone, Debug)]
pub(crate) struct TuningArgs {
    /// Begin with the options of a preset; `esker options` shows them
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = PRESETS)]
    #[arg(help_heading = "Engine", hide_default_value = true)]
    preset: String,

    /// Set one engine option, as often as wanted: sizes may be written 64MiB
    #[arg(long = "option", value_name = "NAME=VALUE", help_heading = "Engine")]
    settings: Vec<String>,
}

impl TuningArgs {
    /// The options asked for.
    ///
    /// # Errors
    /// `Usage`: an unknown name, with the list of names; a value out of range.
    pub(crate) fn options(&self) -> Result<Options> {
        self.over(&Options::preset(&self.preset)?)
    }

    /// The options asked for, and then these settings, with spaces between.
    pub(crate) fn options_with(&self, settings: &str) -> Result<Options> {
        let mut all = self.clone();
        all.settings.extend(settings.split_whitespace().map(str::to_owned));
        all.options()
    }

    /// The single options asked for, on top of `base` instead of the default preset.
    pub(crate) fn options_over(&self, base: &Options) -> Result<Options> {
        if self.preset == "default" { self.over(base) } else { self.options() }
    }

    /// The same, to be given to another process.
    pub(crate) fn as_args(&self) -> Vec<String> {
        let settings = self.settings.iter().flat_map(|s| ["--option".to_owned(), s.clone()]);
        ["--preset".to_owned(), self.preset.clone()].into_iter().chain(settings).collect()
    }

    fn over(&self, base: &Options) -> Result<Options> {
        if let Some(setting) = self.settings.iter().find(|setting| !setting.contains('=')) {
            return Err(Failure::usage(format!("--option {setting}: write it as name=value")));
        }
        let mut options = base.clone();
        esker_settings::apply_each(&mut options, &self.settings)?;
        Ok(options)
    }
}
