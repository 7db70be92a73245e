// A list of what has a member `next`: first in, first out. Of the runtime.
#pragma once

namespace hostcuda {

template <class T> struct Queue {
    T *head = nullptr, **tail = &head;

    void clear() { head = nullptr, tail = &head; }
    void push(T *last) {
        last->next = nullptr;
        *tail = last;
        tail = &last->next;
    }
    T *pop() {
        T *first = head;
        head = first->next;
        if (!head) tail = &head;
        return first;
    }
    void take_all(Queue &other) {
        if (!other.head) return;
        *tail = other.head;
        tail = other.tail;
        other.clear();
    }
};

}  // namespace hostcuda
