//! The other load generators that a plan can name in place of our own.

/// Another load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Ab,
    Wrk,
    H2load,
    Tsung,
    Webbench,
}

impl Engine {
    const ALL: [Engine; 5] = [Engine::Ab, Engine::Wrk, Engine::H2load, Engine::Tsung, Engine::Webbench];

    /// Its name, which is that of its program if it is one.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Ab => "ab",
            Engine::Wrk => "wrk",
            Engine::H2load => "h2load",
            Engine::Tsung => "tsung",
            Engine::Webbench => "webbench",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// Nothing of this name is known.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let known = Engine::ALL.into_iter().find(|engine| engine.name() == name);
        known.ok_or_else(|| {
            format!("load.engine: {name:?}: there are plimsoll, ab, wrk, h2load, tsung and webbench")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_generator_that_is_known_can_be_named() {
        assert!(Engine::named("siege").is_err() && Engine::named("wrk") == Ok(Engine::Wrk));
    }
}
