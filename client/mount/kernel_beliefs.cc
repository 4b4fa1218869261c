#include "client/mount/kernel_beliefs.h"

namespace kintsugi::mount {

KernelBeliefs::KernelBeliefs(const runtime::Runtime& runtime, client::Session& session, Notifier* notifier,
                             runtime::TaskGroup& tasks, Options options)
    : clock_(runtime.clock), session_(session), notifier_(notifier), tasks_(tasks), options_(options) {
  if (notifier_ == nullptr) return;
  session_.on_changed = [this](client::Session::Changes changes) {
    return forget_changed(std::move(changes));
  };
}

Lifetime KernelBeliefs::lasts(const Caller& caller) const {
  return session_.believable(caller.asked, options_.cached_for);
}

Lifetime KernelBeliefs::lasts(const Caller& caller, NodeId directory) const {
  return session_.is_shared(directory) ? Lifetime{0} : lasts(caller);
}

bool KernelBeliefs::is_overtaken(const Caller& caller) const {
  return session_.believable(caller.asked, std::chrono::hours(1)) == Duration{};
}

void KernelBeliefs::told(const Caller& caller, const proto::Attributes& attributes) {
  told_changed(caller, attributes);
  Told& told = inodes_[attributes.inode()];
  told.asked = caller.asked;
  told.confirmed_until = told.until;
}

void KernelBeliefs::told_changed(const Caller& caller, const proto::Attributes& attributes) {
  if (inodes_.size() >= options_.remembered) inodes_.clear();
  Told& told = inodes_[attributes.inode()];
  told.has_xattrs = attributes.has_xattrs();
  told.until = clock_.now() + lasts(caller);
}

Lifetime KernelBeliefs::still_confirmed(NodeId node) const {
  const auto told = inodes_.find(node);
  if (told == inodes_.end() || told->second.asked <= changed_here_) return {};
  return std::max(Lifetime{}, Lifetime{told->second.confirmed_until - clock_.now()});
}

bool KernelBeliefs::is_without_xattrs(NodeId node) const {
  const auto found = inodes_.find(node);
  return found != inodes_.end() && !found->second.has_xattrs && clock_.now() < found->second.until;
}

asio::awaitable<void> KernelBeliefs::forget_changed(client::Session::Changes changes) {
  for (const proto::ChangedInode& changed : changes)
    inodes_.erase(changed.inode());
  for (const proto::ChangedInode& changed : changes) {
    // The kernel drops attributes without taking a lock. It drops pages by itself when it is told another time or size.
    (void)co_await notifier_->invalidate_inode(changed.inode(), -1, 0);
    for (const std::string& name : changed.names()) {
      if (expires_names_) (void)co_await notifier_->invalidate_entry(changed.inode(), name, true);
      // Linux before 6.2 cannot forget a name without detaching what is mounted below it, so we wait until it has
      // forgotten.
      if (!expires_names_ && !co_await tasks_.sleep_for(options_.cached_for)) co_return;
    }
  }
}

}  // namespace kintsugi::mount
