#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace kintsugi::http {

/// Makes an operation awaitable whose error is a part of its result; it throws nothing.
inline constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace kintsugi::http
