//! `tcpwhy-lab model`: kernels that cannot be booted here, computed.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use cli::Target;
use models::{Model, Sweep, Values};
use serde_json::json;

use crate::chart::{self, Chart, Panel, Point};

/// What to do with models.
#[derive(Subcommand, Debug)]
pub enum ModelVerb {
    /// List the models; for one model, its parameters and presets
    List {
        /// The model whose parameters to list
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// One JSON object per model, or per parameter and preset
        #[arg(long)]
        json: bool,
    },
    /// Run a model, second by second or over a range of a parameter
    Run(RunArgs),
    /// Compare every model with what the articles of its cases report
    Check(CheckArgs),
}

/// Arguments of `tcpwhy model run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The model
    name: String,
    /// Write a recording of what a recorder on that host would have seen
    #[arg(short, value_name = "RECORDING", conflicts_with = "sweep")]
    output: Option<PathBuf>,
    /// The same seed gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start from the values of a preset
    #[arg(long, value_name = "PRESET")]
    preset: Option<String>,
    /// Set a parameter
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Run once for each of several values of a parameter
    #[arg(long, value_name = "NAME=A..B")]
    sweep: Option<String>,
    /// Number of values, ends included
    #[arg(long, value_name = "N", default_value_t = 11, requires = "sweep", value_parser = clap::value_parser!(u64).range(2..=10_000))]
    steps: u64,
    /// Run each value with N seeds, starting at --seed: medians, and ranges in the plot
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sweep", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Plot the figures over the parameter to this file, as SVG; - is standard output
    #[arg(long, value_name = "FILE", requires = "sweep")]
    plot: Option<PathBuf>,
    /// Plot only this figure, named by its column head without the unit
    #[arg(long, value_name = "NAME", requires = "sweep")]
    figure: Vec<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `tcpwhy model check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Seeds: 1 to N
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// One JSON object per model
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(verb: ModelVerb, mut out: &mut dyn Write) -> Result<ExitCode> {
    let out = &mut out;
    match verb {
        ModelVerb::List { name: None, json } => list(json, out),
        ModelVerb::List {
            name: Some(name),
            json,
        } => parameters(&name, json, out),
        ModelVerb::Run(args) => model(args, out),
        ModelVerb::Check(args) => check(args, out),
    }
}

fn list(json: bool, out: &mut impl Write) -> Result<ExitCode> {
    for model in models::MODELS {
        if json {
            writeln!(out, "{}", json!({"name": model.name, "title": model.title}))?
        } else {
            writeln!(out, "{:<20} {}", model.name, model.title)?
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn parameters(name: &str, json: bool, out: &mut impl Write) -> Result<ExitCode> {
    let parameters = models::find(name)?.parameters()?;
    if json {
        view::json::lines(parameters.all, out)?;
        view::json::lines(&parameters.presets, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for p in parameters.all {
        writeln!(
            out,
            "{} = {}   ({})\n    {}",
            p.name,
            p.default,
            p.allowed(),
            p.doc
        )?;
    }
    writeln!(out)?;
    for preset in &parameters.presets {
        writeln!(out, "--preset {}\n    {}", preset.name, preset.doc)?;
        for (name, value) in &preset.values {
            writeln!(out, "    {name} = {value}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn values(model: &Model, args: &RunArgs) -> Result<Values> {
    let parameters = model.parameters()?;
    let mut values = match &args.preset {
        Some(preset) => parameters.preset(preset)?,
        None => parameters.defaults(),
    };
    for assignment in &args.set {
        parameters.set(&mut values, assignment)?;
    }
    Ok(values)
}

fn model(args: RunArgs, out: &mut impl Write) -> Result<ExitCode> {
    let model = models::find(&args.name)?;
    let values = values(model, &args)?;
    let target = args.plot.as_deref().map(Target::of).transpose()?;
    if let Some(range) = &args.sweep {
        let range = models::Range::parse(model, range, args.steps as usize)?;
        let sweep = models::sweep(model, &values, &range, args.seed, args.seeds)?;
        let figures = figures(&sweep, &args)?;
        match args.json {
            // Nothing else belongs where the drawing goes.
            _ if target.as_ref().is_some_and(Target::is_stdout) => {}
            true => view::json::lines([&sweep], out)?,
            false => {
                writeln!(out, "{}", models::render_sweep(&sweep))?;
                bars(&sweep, &figures, out)?;
            }
        }
        if let (Some(target), Some(path)) = (target, &args.plot) {
            let chart = plot(&sweep, &figures, &title(model, &args));
            target.write(|out| Ok(chart::svg(&chart, out)?))?;
            if !target.is_stdout() {
                cli::say(&format!("wrote {}", path.display()));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = match &args.output {
        Some(dir) => model.record(&values, args.seed, dir)?,
        None => model.run(&values, args.seed)?,
    };
    if args.json {
        view::json::lines([&report], out)?
    } else {
        write!(out, "{}", models::render_report(&report))?
    }
    if let Some(dir) = &args.output {
        cli::say(&format!("wrote the recording: {}", dir.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The figures to draw: those that were chosen, else all.
fn figures(sweep: &Sweep, args: &RunArgs) -> Result<Vec<usize>> {
    if args.figure.is_empty() {
        return Ok((0..sweep.figures().len()).collect());
    }
    let chosen = args.figure.iter().map(|name| Ok(sweep.figure(name)?));
    chosen.collect()
}

/// One line per figure, with a bar for each value of the parameter.
fn bars(sweep: &Sweep, figures: &[usize], out: &mut impl Write) -> Result<()> {
    for nth in figures {
        let figure = &sweep.figures()[*nth];
        let line = sweep.line(*nth).map(|(_, spread)| spread.median);
        let name = models::with_unit(figure.name, figure.unit);
        writeln!(out, "{}  {name}", chart::bars(line))?;
    }
    Ok(())
}

/// What a plot is of, in a line.
fn title(model: &Model, args: &RunArgs) -> String {
    let mut title = model.name.to_string();
    if let Some(preset) = &args.preset {
        title += &format!(", {preset}");
    }
    for set in &args.set {
        title += &format!(", {set}");
    }
    match args.seeds {
        1 => title + &format!(" (seed {})", args.seed),
        n => title + &format!(" (median and range over {n} seeds)"),
    }
}

fn plot(sweep: &Sweep, figures: &[usize], title: &str) -> Chart {
    let panel = |nth: &usize| {
        let figure = &sweep.figures()[*nth];
        let points = sweep.line(*nth).map(|(x, spread)| Point {
            x,
            median: spread.median,
            least: spread.least,
            most: spread.most,
        });
        Panel {
            title: models::with_unit(figure.name, figure.unit),
            points: points.collect(),
        }
    };
    Chart {
        by_factors: false,
        title: title.into(),
        along: sweep.along(),
        panels: figures.iter().map(panel).collect(),
    }
}

fn check(args: CheckArgs, out: &mut impl Write) -> Result<ExitCode> {
    let checks = models::check(args.seeds)?;
    if args.json {
        view::json::lines(&checks, out)?
    } else {
        write!(out, "{}", models::render_check(&checks))?
    }
    Ok(if checks.iter().all(|c| c.passed) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
