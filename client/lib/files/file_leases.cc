#include "client/lib/files/file_leases.h"

#include "client/lib/files/files_shared.h"
#include "client/lib/files/open_file_state.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr Duration kTryAgain = 200ms;

constexpr sight::Site kGiveBack{"client.give_back_leases", {"inodes"}};
constexpr sight::Site kGiveBackLost{"client.give_back_lost_lease"};

}  // namespace

std::shared_ptr<OpenFileState> FileLeases::file(uint64_t inode) const {
  const auto found = shared_.files.find(inode);
  return found == shared_.files.end() ? nullptr : found->second;
}

// ---- leases that end

void FileLeases::on_recalled(const std::vector<uint64_t>& inodes) {
  std::vector<uint64_t> news;  // the metaserver tells of a recall again until it is answered
  for (const uint64_t inode : inodes)
    if (!shared_.session.leases().is_ending(inode)) news.push_back(inode);
  if (!news.empty()) end_leases(news);
}

void FileLeases::end_leases(const std::vector<uint64_t>& inodes) {
  std::map<uint64_t, uint64_t> ends;
  for (const uint64_t inode : inodes) {
    ends[inode] = shared_.session.leases().end(inode);
    shared_.names.forget(inode);
  }
  shared_.tasks.spawn(give_back(std::move(ends)));
}

asio::awaitable<void> FileLeases::give_back(std::map<uint64_t, uint64_t> inodes) {
  sight::Task task(shared_.context(), kGiveBack, {static_cast<double>(inodes.size())});
  // Whoever wants to see them waits for this; it is tried as long as they do.
  while (!(co_await shared_.unsent.flush(task.context())).ok()) {
    const runtime::Wait wait(task.context(), runtime::WaitKind::kTimer);
    if (!co_await shared_.tasks.sleep_for(kTryAgain)) co_return;
  }
  std::vector<std::shared_ptr<OpenFileState>> dirty;
  // Those that were made in such a directory belong to it.
  std::set<uint64_t> wanted = unleased_;
  for (const auto& [inode, end] : inodes)
    wanted.insert(inode);
  for (const uint64_t inode : wanted) {
    const auto state = file(inode);
    if (!state || state->is_clean()) continue;
    state->start_flush();
    dirty.push_back(state);
  }
  // What cannot be written is told to whoever has the file open here, and is no reason to keep others waiting.
  for (const auto& state : dirty)
    (void)co_await state->flush(task.context());
  std::erase_if(unleased_, [this](uint64_t inode) {
    const auto state = file(inode);
    return !state || state->is_clean();
  });
  for (const auto& [inode, end] : inodes)
    shared_.session.leases().end_is_over(inode, end);
  const Status told = task.finish(co_await shared_.session.tell(task.context()));
  if (!told.ok()) log::debug("leases are given back later: {}", told.to_string());
}

void FileLeases::on_lost(const std::vector<uint64_t>& inodes) {
  shared_.ids.lost();
  for (const uint64_t inode : inodes) {
    shared_.names.forget(inode);
    const auto state = file(inode);
    if (state) state->lease_lost();
    if (state && state->is_sending()) {
      shared_.tasks.spawn(give_back_lost(state));
      continue;
    }
    shared_.session.leases().give_back(inode);
    if (state && state->is_clean() && !state->is_open()) shared_.files.erase(inode);
  }
}

void FileLeases::lost_by_answer(uint64_t inode) {
  if (!shared_.session.leases().lose(inode)) return;
  if (const auto state = file(inode)) {
    shared_.tasks.spawn(give_back_lost(state));
  } else {
    shared_.session.leases().give_back(inode);
  }
}

asio::awaitable<void> FileLeases::give_back_lost(std::shared_ptr<OpenFileState> state) {
  sight::Task task(shared_.context(), kGiveBackLost);
  WriteLeases& leases = shared_.session.leases();
  // What was sent under the lease is refused until the metaserver is told that this client knows of the loss. After that it would come
  // over what others wrote; and what is written from now on would be refused before.
  co_await state->stop_sending(task.context());
  if (leases.is_lost(state->inode())) leases.give_back(state->inode());
  const Status told = task.finish(co_await shared_.session.tell(task.context()));
  if (!told.ok()) log::debug("a lost lease is given back later: {}", told.to_string());
  state->go_on_sending();
}

// ---- leases that are wanted

void FileLeases::want_lease(uint64_t inode) {
  shared_.tasks.spawn(ask_for(inode));
}

asio::awaitable<void> FileLeases::ask_for(uint64_t inode) {
  HeldInodes& held = shared_.session.held();
  if (!file(inode) || !held.is_held(inode)) co_return;
  const auto told = co_await shared_.calls.get(shared_.context(), inode, true, true);
  if (!held.is_held(inode)) held.release_again(inode);  // it was closed meanwhile
  const auto state = file(inode);
  if (told && state) state->adopt(*told);
  if (!state && shared_.session.has_lease(inode)) shared_.session.leases().give_back(inode);
}

// ---- what became of inodes that were made here

void FileLeases::on_refused(uint64_t inode, const Status& why) {
  shared_.session.leases().give_back(inode);
  const auto state = file(inode);
  if (!state) return;
  state->is_gone(why);
  if (state->is_clean() && !state->is_open()) shared_.files.erase(inode);
}

void FileLeases::on_attributes_refused(uint64_t inode, const Status& why) {
  log::warning("attributes of inode {} are not changed: {}", inode, why.to_string());
  if (const auto state = file(inode)) state->attributes_refused(why);
}

void FileLeases::on_written(const proto::Attributes& attributes, bool lease) {
  const uint64_t inode = attributes.inode();
  const auto state = file(inode);
  if (state) state->attributes_written(attributes);
  if (lease == shared_.session.has_lease(inode)) return;
  // It is not needed any more, or the metaserver would rather not give it: then nothing is kept back.
  if (lease && shared_.session.leases().is_ending(inode)) return;
  shared_.session.leases().give_back(inode);
  if (lease || !state || state->is_clean()) return;
  unleased_.insert(inode);
  state->start_flush();
}

}  // namespace kintsugi::client
