//! The reference pages: `GABION_UPDATE_PAGES=1` makes this test update them.

#[test]
fn pages_list_the_commands_and_options() {
    crate::harness::pages::check(gabion_cli::command(), &["cli.md", "kms-commands.md", "bench.md"]);
}
