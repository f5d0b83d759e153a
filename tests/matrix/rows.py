"""All rows, in the order in which they are told."""

from collections.abc import Awaitable, Callable, Mapping

from tests.matrix import conversation, offers
from tests.matrix.cells import Cell

Row = Callable[[Cell], Awaitable[None]]

ROWS: Mapping[str, Row] = {
    row.__name__: row
    for row in (
        *(offers.introduction, offers.methods_of_the_other_era, offers.who_asks, offers.tools, offers.what_goes_wrong),
        *(offers.pagination, offers.resources, offers.prompts, offers.completion, offers.apps, offers.caching),
        *(offers.extension_methods, offers.batches, conversation.progress, conversation.logging),
        *(conversation.elicitation_by_form, conversation.elicitation_by_url, conversation.sampling),
        *(conversation.roots, conversation.what_was_not_declared, conversation.addresses_to_visit),
        *(
            conversation.rounds,
            conversation.sealed_state,
            conversation.tasks,
            conversation.long_calls,
            conversation.changed_lists,
        ),
        *(conversation.watched_resources, conversation.cancelled_by_the_client),
        conversation.cancelled_by_the_upstream,
    )
}
