//! Paths that leave their host, as rules look at them: by what was lost on each.

use std::rc::Rc;

use crate::asked::Asked;
use crate::places::losses::Losses;
use crate::rule::{Kind, There};
use crate::whole::{NO_PATH, Whole};

pub(crate) enum Paths {}

impl Kind for Paths {
    type Place<'a> = Rc<Losses<'a>>;

    const NOTHING: &'static str = NO_PATH;

    fn all<'a>(whole: &Whole<'a>) -> Vec<Rc<Losses<'a>>> {
        whole.losses().to_vec()
    }

    fn there<'a>(asked: &Asked<'a>) -> There<Rc<Losses<'a>>> {
        match asked.losses() {
            Some(losses) => There::Place(Rc::clone(losses)),
            None => asked.brought().into(),
        }
    }
}
