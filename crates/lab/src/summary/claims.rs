//! What others have claimed, and what came of it here: a ratio of two cells with its interval, against the claim.

use super::over;
use crate::plan::{Claim, Plan, Side};
use crate::results::{Cell, ClaimOutcome, Estimate, Judgement, Results, Run, fastest};

/// How every claim of a plan came out.
pub(super) fn outcomes(results: &Results, plan: &Plan) -> Vec<ClaimOutcome> {
    plan.claims.iter().map(|claim| outcome(results, claim)).collect()
}

fn outcome(results: &Results, claim: &Claim) -> ClaimOutcome {
    let best = |side: &Side| best(results, side);
    let (left, right) = (best(&claim.left), best(&claim.right));
    let ratio = left.zip(right).and_then(|(left, right)| over(results, &left.key, &right.key, Run::rate));
    let name = |cell: Option<&Cell>| cell.map_or("not measured".into(), |cell| cell.key.to_string());
    ClaimOutcome {
        text: claim.text.clone(),
        source: claim.source.clone(),
        compared: format!("{} / {}", name(left), name(right)),
        judgement: ratio.map_or(Judgement::Undecided, |ratio| judge(claim, &ratio)),
        ratio,
    }
}

/// The fastest cell of those that a side names.
fn best<'a>(results: &'a Results, side: &Side) -> Option<&'a Cell> {
    fastest(results.cells.iter().filter(|cell| side.names(&cell.key)))
}

/// Reproduced where the whole interval is within the bounds, refuted where it is wholly outside.
fn judge(claim: &Claim, ratio: &Estimate) -> Judgement {
    let (least, most) = (claim.at_least.unwrap_or(0.0), claim.at_most.unwrap_or(f64::INFINITY));
    if ratio.low >= least && ratio.high <= most {
        Judgement::Reproduced
    } else if ratio.high < least || ratio.low > most {
        Judgement::Refuted
    } else {
        Judgement::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn a_claim_is_reproduced_refuted_or_undecided_by_its_interval() {
        // a is twice as fast as b, give or take 10 %.
        let surface = |target: &str, round: u32| {
            let rate = 1000.0 + 50.0 * f64::from(round);
            (if target == "a" { 2.0 * rate } else { rate }, 10.0)
        };
        let mut results = fake::results(&["a", "b"], 3, surface);
        let plan = |bound: &str| {
            let sides = "left = { target = \"a\" }\nright = { target = \"b\" }";
            fake::plan(&["a", "b"], &format!("[[claim]]\ntext = \"a is faster\"\n{sides}\n{bound}\n"))
        };
        super::super::summarise(&mut results, &plan("at_least = 1"));
        let judged = |bound: &str| outcomes(&results, &plan(bound))[0].judgement;
        assert_eq!(judged("at_least = 1.5"), Judgement::Reproduced);
        assert_eq!(judged("at_least = 3"), Judgement::Refuted);
        assert_eq!(judged("at_most = 1.5"), Judgement::Refuted);
        assert_eq!(judged("at_least = 2"), Judgement::Undecided);
        results.cells.clear();
        assert_eq!(outcomes(&results, &plan("at_least = 1"))[0].ratio, None);
    }
}
