//! The reference page: `GABION_UPDATE_PAGES=1` makes this test update it.

#[test]
fn the_page_lists_the_commands_and_options() {
    gabion_cli_testing::pages::check(gabion_bench::command(), &["bench.md"]);
}
