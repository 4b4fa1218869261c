#include "metaserver/namespace/quotas.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "common/base/math.h"
#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/namespace/reclaim.h"

namespace kintsugi::metaserver {
namespace {

constexpr size_t kEntriesAStep = 128;

struct Charge {
  int64_t bytes = 0, files = 0;
};

std::optional<proto::StoredQuota> load(const Transaction& transaction, uint64_t id) {
  return transaction.get_message<proto::StoredQuota>(keys::quota(InodeId{id}));
}

/// Adds to a quota and to all that it counts for.
void add(Transaction& transaction, uint64_t id, Charge charge) {
  if (charge.bytes == 0 && charge.files == 0) return;
  for (int depth = 0; id != 0 && depth < kMaxNestedQuotas; ++depth) {
    auto quota = load(transaction, id);
    if (!quota) return;  // a wrong count would be better than a metaserver that cannot continue
    quota->set_bytes(changed_by(quota->bytes(), charge.bytes));
    quota->set_files(changed_by(quota->files(), charge.files));
    transaction.put_message(keys::quota(InodeId{id}), *quota);
    id = quota->above();
  }
}

/// Lets a quota, with all that counts for it, count for another one.
void set_above(Transaction& transaction, uint64_t id, uint64_t above) {
  auto quota = load(transaction, id);
  KINTSUGI_ASSERT(quota);
  if (quota->above() == above) return;
  const Charge all{static_cast<int64_t>(quota->bytes()), static_cast<int64_t>(quota->files())};
  add(transaction, quota->above(), {-all.bytes, -all.files});
  add(transaction, above, all);
  quota->set_above(above);
  transaction.put_message(keys::quota(InodeId{id}), *quota);
}

/// What an inode counts for by itself: the directory of a quota counts for the one above it.
uint64_t counted_by(uint64_t id, const proto::StoredInode& inode,
                    const std::optional<proto::StoredQuota>& own) {
  if (inode.quota() != id) return inode.quota();
  return own ? own->above() : 0;
}

/// How many quotas stand above each other from this one up.
int height(const Transaction& transaction, uint64_t id) {
  int height = 0;
  for (; id != 0 && height <= kMaxNestedQuotas; ++height) {
    const auto quota = load(transaction, id);
    if (!quota) break;
    id = quota->above();
  }
  return height;
}

/// How many quotas stand below each other from this one down. Quotas are few.
int depth_below(const Transaction& transaction, uint64_t id) {
  int deepest = 0;
  transaction.scan(keys::all(keys::Kind::kQuota), [&](std::string_view key, std::string_view value) {
    uint64_t at = Reader::parse<proto::StoredQuota>(value).above();
    int depth = 1;
    if (keys::first_id(key) == id) return true;
    while (at != 0 && at != id && depth <= kMaxNestedQuotas) {
      const auto quota = load(transaction, at);
      at = quota ? quota->above() : 0;
      ++depth;
    }
    if (at == id) deepest = std::max(deepest, depth);
    return true;
  });
  return deepest;
}

Status too_deep() {
  return {Code::kLimitExceeded,
          fmt::format("would have more than {} quotas above each other", kMaxNestedQuotas)};
}

Status check(const proto::StoredQuota& after, const std::optional<proto::StoredQuota>& before) {
  if (after.removed()) return {};
  const auto exceeded = [&](uint64_t used, uint64_t most, std::string_view unit) {
    return Status{Code::kQuota, fmt::format("is over the quota of {}: it would have {} {}, {} are allowed",
                                            after.path(), used, unit, most)};
  };
  if (after.has_max_bytes() && after.bytes() > after.max_bytes() &&
      (!before || after.bytes() > before->bytes()))
    return exceeded(after.bytes(), after.max_bytes(), "bytes");
  if (after.has_max_files() && after.files() > after.max_files() &&
      (!before || after.files() > before->files()))
    return exceeded(after.files(), after.max_files(), "files and directories");
  return {};
}

proto::Quota described(const Reader& reader, uint64_t id, const proto::StoredQuota& stored) {
  proto::Quota quota;
  quota.set_path(path_of(reader, InodeId{id}, stored.path()));
  quota.set_directory(id);
  if (stored.has_max_bytes()) quota.set_max_bytes(stored.max_bytes());
  if (stored.has_max_files()) quota.set_max_files(stored.max_files());
  quota.set_bytes(stored.bytes());
  quota.set_files(stored.files());
  quota.set_counting(stored.counting());
  return quota;
}

bool any_unmarked(const Transaction& transaction) {
  bool any = false;
  transaction.scan(keys::all(keys::Kind::kUnmarked), [&](std::string_view, std::string_view) {
    any = true;
    return false;
  });
  return any;
}

}  // namespace

uint64_t limiting_quota(const Transaction& transaction, InodeId directory) {
  uint64_t limiting = 0;
  walk_up(transaction, directory, [&](InodeId at, const proto::StoredInode& inode) {
    if (inode.quota() != at.value) return true;
    const auto quota = load(transaction, at.value);
    if (quota && !quota->removed()) limiting = at.value;
    return limiting == 0;
  });
  return limiting;
}

Status move_across_quotas(Transaction& transaction, InodeId id, proto::StoredInode& inode, uint64_t quota,
                          bool one_limit) {
  if (is_directory(inode) && inode.quota() == id.value) {
    if (height(transaction, quota) + 1 + depth_below(transaction, id.value) > kMaxNestedQuotas)
      return too_deep();
    set_above(transaction, id.value, quota);
    return {};
  }
  const bool with_content = is_directory(inode) && !is_empty_directory(transaction.store(), id);
  if (!one_limit && (with_content || (!is_directory(inode) && inode.links() > 1)))
    return {Code::kCrossDevice, "cannot be moved across a quota boundary (copy it)"};
  inode.set_quota(quota);
  if (with_content) transaction.put(keys::unmarked(id), "");
  return {};
}

Status link_across_quotas(const Transaction& transaction, proto::StoredInode& inode, uint64_t quota) {
  if (inode.quota() == quota) return {};
  // While a tree is being counted, its directories and files do not name the same quota yet.
  if (!any_unmarked(transaction)) return {Code::kCrossDevice, "cannot be linked across a quota boundary"};
  inode.set_quota(quota);
  return {};
}

void Quotas::load(const Reader& reader) {
  reader.scan(keys::all(keys::Kind::kQuota), [&](std::string_view, std::string_view) {
    any_ = counting_ = true;
    return false;
  });
}

void Quotas::follow(const Transaction& transaction) {
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kQuota))) {
    any_ = true;
    counting_ = counting_ || (value && Reader::parse<proto::StoredQuota>(*value).counting());
  }
}

Status Quotas::set(Transaction& transaction, std::string_view text, std::optional<uint64_t> max_bytes,
                   std::optional<uint64_t> max_files) const {
  KINTSUGI_ASSIGN(const Path path, Path::parse(text));
  KINTSUGI_ASSIGN(const Entry entry, walk(transaction.store(), path.names));
  const std::string shown = path_text(path.names);
  if (!entry.is_directory())
    return {Code::kNotDirectory, shown + " is not a directory: quotas are for directories"};
  const uint64_t id = entry.id.value;
  proto::StoredInode directory = load_inode(transaction.store(), entry.id);
  auto stored = metaserver::load(transaction, id);
  const bool limits = stored && !stored->removed();
  const bool with_content = !is_empty_directory(transaction.store(), entry.id);
  if (!max_bytes && !max_files) {
    if (!limits) return {Code::kNotFound, shown + " has no quota"};
    stored->set_removed(true);
    transaction.put_message(keys::quota(entry.id), *stored);
    directory.set_quota(stored->above());
    transaction.put_message(keys::inode(entry.id), directory);
    if (with_content) transaction.put(keys::unmarked(entry.id), "");
    return {};
  }
  if (!limits) {
    if (!stored) {
      size_t quotas = 0;
      transaction.scan(keys::all(keys::Kind::kQuota),
                       [&](std::string_view, std::string_view) { return ++quotas < kMaxQuotas; });
      if (quotas >= kMaxQuotas)
        return {Code::kLimitExceeded,
                fmt::format("there are {} quotas already, as many as there may be", kMaxQuotas)};
      stored.emplace().set_above(directory.quota());
      transaction.put_message(keys::quota(entry.id), *stored);
    }
    // The quota above begins to count for whatever of it lies below this one, so it may get deeper than it was.
    const int deepest = with_content ? depth_below(transaction, directory.quota()) : 0;
    if (height(transaction, directory.quota()) + 1 + deepest > kMaxNestedQuotas)
      return {Code::kLimitExceeded, shown + " " + too_deep().message()};
    set_above(transaction, id, directory.quota());
    stored = metaserver::load(transaction, id);
    stored->set_removed(false);
    stored->set_counting(with_content);
    directory.set_quota(id);
    transaction.put_message(keys::inode(entry.id), directory);
    if (with_content) transaction.put(keys::unmarked(entry.id), "");
  }
  stored->set_path(shown);
  stored->clear_max_bytes();
  stored->clear_max_files();
  if (max_bytes) stored->set_max_bytes(*max_bytes);
  if (max_files) stored->set_max_files(*max_files);
  transaction.put_message(keys::quota(entry.id), *stored);
  return {};
}

Status Quotas::account(Transaction& transaction, bool enforced) const {
  const bool any = any_ || !transaction.written(keys::all(keys::Kind::kQuota)).empty();
  if (!any || std::exchange(transaction.accounted, true)) return {};
  const Reader& before = transaction.store();
  std::map<uint64_t, Charge> charges;
  const auto count = [&](const proto::StoredInode& inode, uint64_t quota, int64_t sign) {
    if (quota == 0) return;
    Charge& charge = charges[quota];
    charge.bytes += sign * static_cast<int64_t>(inode.used_bytes());
    charge.files += sign;
  };
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kInode))) {
    const uint64_t id = keys::first_id(key);
    const auto old = before.get_message<proto::StoredInode>(key);
    std::optional<proto::StoredInode> now;
    if (value) now = Reader::parse<proto::StoredInode>(*value);
    if (old) {
      const bool own = old->quota() == id;
      const auto own_before =
          own ? before.get_message<proto::StoredQuota>(keys::quota(InodeId{id})) : std::nullopt;
      count(*old, counted_by(id, *old, own_before), -1);
      auto quota = own ? metaserver::load(transaction, id) : std::nullopt;
      if (quota && (!now || now->links() == 0)) {
        // Its directory was removed: what is left of it is reclaimed.
        quota->set_removed(true);
        transaction.put_message(keys::quota(InodeId{id}), *quota);
        if (now && now->quota() == id) {
          now->set_quota(quota->above());
          transaction.put_message(key, *now);
        }
      }
    }
    if (now)
      count(*now, counted_by(id, *now, now->quota() == id ? metaserver::load(transaction, id) : std::nullopt),
            +1);
  }
  for (const auto& [id, charge] : charges)
    add(transaction, id, charge);
  for (const auto& [key, value] : transaction.written(keys::all(keys::Kind::kQuota))) {
    if (!value) continue;
    const auto quota = Reader::parse<proto::StoredQuota>(*value);
    if (quota.removed() && quota.bytes() == 0 && quota.files() == 0) {
      transaction.remove(key);
    } else if (enforced) {
      KINTSUGI_TRY(check(quota, before.get_message<proto::StoredQuota>(key)));
    }
  }
  return {};
}

bool Quotas::mark_step(Transaction& transaction) {
  if (!any_) return false;
  std::optional<InodeId> directory;
  std::string after;
  transaction.scan(keys::all(keys::Kind::kUnmarked), [&](std::string_view key, std::string_view value) {
    directory = InodeId{keys::first_id(key)};
    after = value;
    return false;
  });
  if (!directory) {
    if (!counting_) return false;
    counting_ = false;
    transaction.scan(keys::all(keys::Kind::kQuota), [&](std::string_view key, std::string_view value) {
      auto quota = Reader::parse<proto::StoredQuota>(value);
      if (!quota.counting()) return true;
      quota.set_counting(false);
      transaction.put_message(std::string(key), quota);
      return counting_ = true;  // until the store has it otherwise
    });
    return counting_;
  }
  const auto inode = transaction.get_message<proto::StoredInode>(keys::inode(*directory));
  size_t seen = 0;
  std::string last;
  if (inode) {
    transaction.scan(keys::entries(*directory, after), [&](std::string_view key, std::string_view value) {
      if (seen == kEntriesAStep) return false;
      ++seen;
      last = keys::name_of_entry(key);
      const uint64_t id = Reader::parse<proto::StoredDirectoryEntry>(value).inode();
      auto child = transaction.get_message<proto::StoredInode>(keys::inode(InodeId{id}));
      if (!child) return true;
      if (child->quota() == inode->quota()) return true;
      if (child->quota() == id) {
        set_above(transaction, id, inode->quota());
      } else {
        child->set_quota(inode->quota());
        if (is_directory(*child)) transaction.put(keys::unmarked(InodeId{id}), "");
      }
      // Also when only its own quota changed: account() looks at inodes.
      transaction.put_message(keys::inode(InodeId{id}), *child);
      return true;
    });
  }
  if (seen == kEntriesAStep) {
    transaction.put(keys::unmarked(*directory), last);
  } else {
    transaction.remove(keys::unmarked(*directory));
  }
  return true;
}

Result<proto::GetQuotasResponse> Quotas::at(const Transaction& transaction, InodeId id) {
  const auto inode = transaction.get_message<proto::StoredInode>(keys::inode(id));
  if (!inode) return Status{Code::kStale, "does not exist any more"};
  InodeId directory = id;
  if (!is_directory(*inode)) directory = InodeId{inode->parent() != 0 ? inode->parent() : inode->quota()};
  proto::GetQuotasResponse response;
  while (const uint64_t found = limiting_quota(transaction, directory)) {
    const auto quota = metaserver::load(transaction, found);
    *response.add_quotas() = described(transaction.store(), found, *quota);
    if (InodeId{found} == kRootInode) break;
    directory = InodeId{load_inode(transaction.store(), InodeId{found}).parent()};
  }
  return response;
}

proto::ListQuotasResponse Quotas::list(const Reader& reader, uint64_t after, uint32_t limit) {
  limit = std::min(limit == 0 ? kMaxListedQuotas : limit, kMaxListedQuotas);
  proto::ListQuotasResponse response;
  keys::Range range = keys::all(keys::Kind::kQuota);
  if (after != 0) range.begin = keys::quota(InodeId{after}) + '\0';
  reader.scan(range, [&](std::string_view key, std::string_view value) {
    const auto quota = Reader::parse<proto::StoredQuota>(value);
    if (quota.removed()) return true;
    if (static_cast<uint32_t>(response.quotas_size()) == limit) {
      response.set_more(true);
      return false;
    }
    *response.add_quotas() = described(reader, keys::first_id(key), quota);
    return true;
  });
  return response;
}

}  // namespace kintsugi::metaserver
