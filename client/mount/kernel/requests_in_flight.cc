#include "client/mount/kernel/requests_in_flight.h"

namespace kintsugi::mount {

RequestsInFlight::RequestsInFlight(Limits limits, std::span<std::atomic<uint64_t>> journal)
    : limits_(limits), journal_(journal) {
  KINTSUGI_ASSERT(limits.large_buffers > 0 && limits.requests > 0);
  KINTSUGI_ASSERT(journal.empty() || journal.size() >= 2 * limits.requests);
  for (auto* list : {&free_, &active_})
    list->reserve(2 * limits.requests);
}

Request* RequestsInFlight::find(uint64_t id) const {
  for (Request* request : active_)
    if (request->id == id) return request;
  return nullptr;
}

bool RequestsInFlight::has_room() const {
  return active_.size() - given_up_.requests < limits_.requests && active_.size() < 2 * limits_.requests;
}

bool RequestsInFlight::has_room_for_large() const {
  return large_held_ - given_up_.large_buffers <= limits_.large_buffers;
}

Request& RequestsInFlight::begin() {
  if (free_.empty()) {
    requests_.push_back(std::make_unique<Request>());
    requests_.back()->slot = requests_.size() - 1;
    free_.push_back(requests_.back().get());
  }
  Request& request = *free_.back();
  free_.pop_back();
  request.position = active_.size();
  active_.push_back(&request);
  return request;
}

void RequestsInFlight::note(const Request& request) {
  if (!journal_.empty()) journal_[request.slot].store(request.answer_as, std::memory_order_relaxed);
}

void RequestsInFlight::hold_body(Request& request, runtime::Buffer& buffer) {
  if (request.body.size() <= request.small.size()) {
    std::memcpy(request.small.data(), request.body.data(), request.body.size());
    request.body = std::span(request.small).first(request.body.size());
  } else {
    request.large = std::move(buffer);
    ++large_held_;
  }
}

void RequestsInFlight::give_up(Request& request) {
  KINTSUGI_ASSERT(!request.interrupt.abandoned());
  request.interrupt.abandon();
  ++given_up_.requests;
  if (request.large) ++given_up_.large_buffers;
}

void RequestsInFlight::end(Request& request, bool stays_noted) {
  const bool given_up = request.interrupt.abandoned();
  if (given_up) --given_up_.requests;
  if (request.large) {
    --large_held_;
    if (given_up) --given_up_.large_buffers;
  }
  if (!journal_.empty() && !stays_noted) journal_[request.slot].store(0, std::memory_order_relaxed);
  request.interrupt = {};
  request.large = {};
  request.answered = false;
  request.reply.clear();
  request.granted = {};
  active_.back()->position = request.position;
  active_[request.position] = active_.back();
  active_.pop_back();
  free_.push_back(&request);
}

std::vector<uint64_t> RequestsInFlight::take_noted() {
  std::vector<uint64_t> noted;
  for (auto& word : journal_)
    if (const uint64_t unique = word.exchange(0, std::memory_order_relaxed); unique != 0)
      noted.push_back(unique);
  return noted;
}

}  // namespace kintsugi::mount
