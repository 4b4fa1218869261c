#include "metaserver/chunks/history.h"

#include <algorithm>

#include "common/log/log.h"

namespace kintsugi::metaserver {

void History::load() {
  const Reader reader(store_);
  reader.scan(keys::all(keys::Kind::kEpoch), [&](std::string_view key, std::string_view value) {
    starts_ = keys::first_id(key);
    current_ = Reader::parse<proto::StoredEpoch>(value);
    epochs_[current_.id()] = current_;
    return true;
  });
  reader.scan(keys::all(keys::Kind::kAbandoned), [&](std::string_view key, std::string_view) {
    abandoned_.insert(keys::first_id(key));
    return true;
  });
  doubt_ = reader.get_message<proto::MetadataDoubt>(keys::doubt());
  opened_at_ = store_.position();
}

asio::awaitable<Status> History::begin() {
  Transaction transaction(store_);
  if (starts_ == 0 && stripe_ids_.former_limit() > 0) {
    // The store is from before there were epochs: all that it has counts as one.
    starts_ = 1;
    current_.set_id(random_.next() | 1);
    epochs_[current_.id()] = current_;
  }
  if (starts_ > 0) {
    // Only now it is known how far the last epoch came. What it told others was durable before, so it is covered.
    proto::StoredEpoch& last = epochs_[current_.id()];
    last.set_last_position(opened_at_);
    last.set_stripe_limit(stripe_ids_.former_limit());
    transaction.put_message(keys::epoch(starts_), last);
  }
  for (const auto& [id, epoch] : epochs_)
    stripes_of_epochs_[epoch.first_stripe()] = epoch.stripe_limit();

  current_.Clear();
  current_.set_id(random_.next() | 1);
  current_.set_first_position(opened_at_);
  current_.set_first_stripe(stripe_ids_.first());
  current_.set_begun_ns(clock_.wall_now().time_since_epoch().count());
  transaction.put_message(keys::epoch(++starts_), current_);
  if (doubt_) {
    log::error(
        "the metadata is older than chunks of this cluster ({}): nothing is deleted; see `kintsugi metadata "
        "status`",
        doubt_->evidence());
  }
  co_return co_await store_.commit(transaction.take());
}

std::optional<proto::MetadataMark> History::mark() const {
  // All servers that are there have registered by then.
  if (doubt_ || clock_.now() < started_ + options_.dead_after) return std::nullopt;
  proto::MetadataMark mark;
  mark.set_epoch(current_.id());
  mark.set_position(store_.position());
  return mark;
}

void History::check_mark(Transaction& transaction, ServerId server, const proto::MetadataMark& seen) {
  if (seen.epoch() == 0 || seen.epoch() == current_.id() || abandoned_.contains(seen.epoch())) return;
  const auto known = epochs_.find(seen.epoch());
  if (known == epochs_.end()) {
    begin_doubt(transaction, server, seen.epoch(),
                fmt::format("server {} has worked with a metaserver of which this metadata knows nothing",
                            servers_.name_of(server)));
  } else if (seen.position() > known->second.last_position()) {
    begin_doubt(transaction, server, 0,
                fmt::format("server {} saw this metadata at position {}, it was put back to {}",
                            servers_.name_of(server), seen.position(), known->second.last_position()));
  }
}

History::Origin History::origin_of(StripeId stripe) const {
  const uint64_t id = stripe.value;
  if (id >= stripe_ids_.first() && id < stripe_ids_.next()) return Origin::kThisProcess;
  const auto after = stripes_of_epochs_.upper_bound(id);
  if (after == stripes_of_epochs_.begin()) return Origin::kForeign;
  return id < std::prev(after)->second ? Origin::kBefore : Origin::kForeign;
}

void History::foreign_chunk(Transaction& transaction, ServerId server, ChunkId chunk) {
  begin_doubt(transaction, server, 0,
              fmt::format("server {} holds chunk {}, which this metadata cannot have placed",
                          servers_.name_of(server), chunk));
}

void History::begin_doubt(Transaction& transaction, ServerId server, uint64_t epoch, std::string evidence) {
  const bool first = !doubt_;
  if (first) {
    log::error(
        "the metadata is older than chunks of this cluster: {}; nothing is deleted until that is decided, "
        "see "
        "`kintsugi metadata status`",
        evidence);
    proto::MetadataDoubt doubt;
    doubt.set_since_ns(clock_.wall_now().time_since_epoch().count());
    doubt.set_server_id(server.value);
    doubt.set_evidence(std::move(evidence));
    doubt_ = std::move(doubt);
  }
  const auto& known = doubt_->epochs();
  const bool new_epoch = epoch != 0 && std::find(known.begin(), known.end(), epoch) == known.end() &&
                         doubt_->epochs_size() < kMaxDoubtedEpochs;
  if (new_epoch) doubt_->add_epochs(epoch);
  if (first || new_epoch) transaction.put_message(keys::doubt(), *doubt_);
}

Status History::accept(Transaction& transaction) {
  if (!doubt_) return {Code::kNotFound, "the metadata is not in doubt: there is nothing to accept"};
  for (uint64_t epoch : doubt_->epochs()) {
    transaction.put(keys::abandoned(epoch), "");
    abandoned_.insert(epoch);
  }
  transaction.remove(keys::doubt());
  doubt_.reset();
  return {};
}

}  // namespace kintsugi::metaserver
