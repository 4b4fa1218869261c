/// Takes deleted snapshots apart, the oldest first, in steps of bounded size. What a snapshot kept is left to the next
/// older one that needs it, or is forgotten.
#pragma once

#include <string>

#include "metaserver/namespace/snapshots.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// It remembers how far it came: whoever looked from the beginning each time would pass over all that was removed
/// before.
class SnapshotDeletion {
 public:
  /// Does one bounded step. False: nothing is to be deleted.
  bool step(const Snapshots& snapshots, Transaction& transaction, FreedStripes& freed);

 private:
  /// The record that the last step deleted last, as keys::SavedKey lists it.
  std::string up_to_;
};

}  // namespace kintsugi::metaserver
