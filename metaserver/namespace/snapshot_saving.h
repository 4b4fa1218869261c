/// What a transaction changes is saved for the snapshots that need it as it was: of each record the first change after
/// a snapshot was made, in the same batch. Which snapshots those are is found by the directories above
/// (namespace/snapshots.h).
#pragma once

#include "metaserver/namespace/snapshots.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// Takes stripes that snapshots need out of `freed`. To be called last, before the transaction is handed to the store.
void save_for_snapshots(const Snapshots& snapshots, Transaction& transaction, FreedStripes& freed);

}  // namespace kintsugi::metaserver
