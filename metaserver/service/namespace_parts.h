/// The tree of names and what belongs to it: policies, quotas, snapshots, the trash.
#pragma once

#include "common/runtime/runtime.h"
#include "metaserver/cluster/options.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/namespace/directory_policies.h"
#include "metaserver/namespace/namespace.h"
#include "metaserver/namespace/places.h"
#include "metaserver/namespace/quotas.h"
#include "metaserver/namespace/snapshots.h"
#include "metaserver/namespace/trash.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/service/settling.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

struct NamespaceParts {
  /// References outlive it.
  NamespaceParts(const runtime::Runtime& runtime, const MetaServerOptions& options, KeyValueStore& store,
                 Clients& clients)
      : inode_ids(runtime, store, "inode"),
        policies(runtime.clock, options.default_policy),
        places(store, snapshots),
        inodes(inode_ids, runtime.clock, &snapshots, &trash),
        tree(inode_ids, inodes, [&clients](InodeId inode) { return clients.sessions.held(inode); }),
        settling(runtime, store, clients.leases) {}

  IdAllocator inode_ids;
  DirectoryPolicies policies;
  Quotas quotas;
  Snapshots snapshots;
  Trash trash;
  Places places;
  Inodes inodes;
  Namespace tree;
  Settling settling;
};

}  // namespace kintsugi::metaserver
