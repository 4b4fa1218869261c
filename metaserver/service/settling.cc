#include "metaserver/service/settling.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "metaserver/service/leased_below.h"

namespace kintsugi::metaserver {

void Unsettled::inode(InodeId inode, uint64_t session) {
  if (!leases_.settled(inode, session)) found_.push_back({inode, session});
}

void Unsettled::name(InodeId directory, std::string_view name, uint64_t session) {
  if (leases_.all_settled(session)) return;
  inode(directory, session);
  const auto entry = find_entry(reader_, directory, name);
  if (entry && entry->is_directory()) inode(entry->id, session);
}

std::optional<InodeId> Unsettled::follow(std::string_view text) {
  const Result<Path> path = Path::parse(text);
  if (!path) return std::nullopt;  // whoever follows it says what is wrong with it
  Entry at{kRootInode, proto::Attributes::DIRECTORY};
  for (size_t depth = 0;; ++depth) {
    if (at.is_directory() && !leases_.settled(at.id, 0)) {
      found_.push_back({at.id, 0});
      return std::nullopt;
    }
    if (depth == path->names.size()) return at.id;
    const std::optional<Entry> next =
        at.is_directory() ? find_entry(reader_, at.id, path->names[depth]) : std::nullopt;
    if (!next) return std::nullopt;
    at = *next;
  }
}

void Unsettled::directories_of(std::string_view text) {
  if (!leases_.all_settled(0)) (void)follow(text);
}

void Unsettled::path(std::string_view text, uint64_t session) {
  if (leases_.all_settled(0)) return;
  if (const auto leads_to = follow(text)) inode(*leads_to, session);
}

void Unsettled::entries(const proto::ListResponse& page, uint64_t session) {
  if (leases_.all_settled(session)) return;
  for (const proto::DirectoryEntry& entry : page.entries())
    inode(InodeId{entry.attributes().inode()}, session);
}

void Unsettled::into_quota(InodeId inode, InodeId to) {
  if (leases_.settled(inode, 0)) return;
  const auto directory = reader_.get_message<proto::StoredInode>(keys::inode(to));
  if (directory && directory->quota() != 0) found_.push_back({inode, 0});
}

void Unsettled::into_quota(InodeId from, std::string_view name, InodeId to) {
  if (!empty() || leases_.all_settled(0)) return;
  if (const auto entry = find_entry(reader_, from, name)) into_quota(entry->id, to);
}

void Unsettled::into_quota(std::string_view from, std::string_view to) {
  if (!empty() || leases_.all_settled(0)) return;
  const Result<Path> from_path = Path::parse(from), to_path = Path::parse(to);
  if (!from_path || !to_path || from_path->is_root() || to_path->is_root()) return;
  const auto from_parent = walk_to_parent(reader_, *from_path), to_parent = walk_to_parent(reader_, *to_path);
  if (from_parent && to_parent) into_quota(*from_parent, from_path->names.back(), *to_parent);
}

asio::awaitable<Status> Settling::directories_of(Context context, std::string path) {
  const auto find = [&](Unsettled& unsettled) { unsettled.directories_of(path); };
  co_return co_await until_none(context, find);
}

asio::awaitable<std::vector<InodeId>> Settling::leased_below(InodeId directory) const {
  for (int walk = 1;; ++walk) {
    const uint64_t moves_before = moves_;
    LeasedBelow leased(reader_, leases_, directory);
    const size_t at_once = walk < kMaxWalks ? LeasedBelow::kAtOnce : SIZE_MAX;
    while (leased.look(at_once))
      co_await asio::post(executor_, asio::use_awaitable);
    if (leased.is_complete() && moves_ == moves_before) co_return leased.found();
  }
}

asio::awaitable<Status> Settling::below(Context context, std::string path) {
  const Leases::Pause pause(leases_);
  for (int round = 0; round < kMaxRounds; ++round) {
    KINTSUGI_CO_TRY(co_await directories_of(context, path));
    const Result<Path> names = Path::parse(path);
    if (!names) co_return Status{};
    const Result<Entry> directory = walk(reader_, names->names);
    if (!directory) co_return Status{};  // whoever follows the path says so
    std::vector<InodeId> leased = co_await leased_below(directory->id);
    if (leased.empty()) co_return Status{};
    KINTSUGI_CO_TRY(co_await leases_.settle(context, leased, 0, Leases::Patience::kTenSeconds));
  }
  co_return Status{Code::kUnavailable, path + " is in use by other clients"};
}

}  // namespace kintsugi::metaserver
