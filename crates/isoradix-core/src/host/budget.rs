//! How many tokens a budget of bytes holds.

use super::error::HostError;

/// Tokens that `bytes` of host memory hold at `bytes_per_token` bytes, in whole pages of `page_size` tokens.
///
/// The last page is taken whole, so the budget may be exceeded by less than a page: a budget is what the operator wishes
/// for, whether the memory is there is found out by pinning it. Stages differ in bytes per token, so this value is
/// per-rank; the capacity is its MIN over all ranks.
///
/// # Errors
/// If `bytes_per_token` or `page_size` is 0, or the tokens do not fit 64 bits.
pub fn capacity_tokens(bytes: u64, bytes_per_token: u64, page_size: u32) -> Result<u64, HostError> {
    if page_size == 0 {
        return Err(HostError::Zero { what: "page_size" });
    }
    let tokens = bytes.checked_div(bytes_per_token).ok_or(HostError::Zero { what: "bytes_per_token" })?;
    tokens.checked_next_multiple_of(page_size.into()).ok_or(HostError::Budget { tokens, page_size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_with_the_larger_tokens_sets_the_capacity_of_all() {
        let stages = [12_464, 13_120].map(|bytes_per_token| capacity_tokens(100_000_000_000, bytes_per_token, 64));
        assert_eq!(stages, [Ok(8_023_168), Ok(7_621_952)]);
        assert_eq!(stages.into_iter().flatten().min(), Some(7_621_952));
    }

    #[test]
    fn whole_pages_and_no_budget_no_tokens() {
        assert_eq!(capacity_tokens(128, 1, 64), Ok(128));
        assert_eq!(capacity_tokens(129, 1, 64), Ok(192));
        assert_eq!(capacity_tokens(0, 1, 64), Ok(0));
        assert_eq!(capacity_tokens(9, 10, 64), Ok(0));
    }

    #[test]
    fn what_has_no_answer_is_refused() {
        assert_eq!(capacity_tokens(1, 0, 64), Err(HostError::Zero { what: "bytes_per_token" }));
        assert_eq!(capacity_tokens(1, 1, 0), Err(HostError::Zero { what: "page_size" }));
        assert_eq!(capacity_tokens(u64::MAX, 1, 64), Err(HostError::Budget { tokens: u64::MAX, page_size: 64 }));
    }
}
