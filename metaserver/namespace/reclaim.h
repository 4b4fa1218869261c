/// Inodes that have lost their last name. Small ones go at once; directories with something in them and files of many
/// stripes become orphans, which a background task takes apart in batches of bounded size. Orphans are durable, so a
/// restart goes on where it was.
#pragma once

#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

bool is_empty_directory(const Reader& reader, InodeId directory);

/// Deletes the inode and frees its stripes. Makes it an orphan instead when it is a file of more than `max_stripes`, or
/// a directory with entries.
void unlink_inode(Transaction& transaction, Entry entry, size_t max_stripes, FreedStripes& freed);

/// Does one bounded step on one orphan. False: there are none.
bool reclaim_step(Transaction& transaction, FreedStripes& freed);

}  // namespace kintsugi::metaserver
