(* The rule of Items.v as one of the step: which rows of a cohort go out against a reader who knows up to d windows and m
   rows of somebody (`against`, with `drop`). It remembers of each cohort the items that are out, as lists of people in
   canonical order, and the names of those that were dropped: its own window, and what is published of a row. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype path.
From kanonflow Require Import Step.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Against.
Variables (person payload : eqType) (people : seq person).
(* So many people must be left to who knows d windows and m rows; of a row its look, a number. *)
Variables (least d m : nat) (look : row payload -> nat).

Definition item := seq person.
Definition name := (nat * nat)%type.
Definition meet (a b : item) : item := [seq p <- people | (p \in a) && (p \in b)].
Definition join (a b : item) : item := [seq p <- people | (p \in a) || (p \in b)].

(* Nobody, or enough. *)
Definition enough (a : item) := let n := count (mem a) people in (n == 0) || (least <= n).

(* Who has all of up to n of some items, for each choice of them. *)
Fixpoint meets n (items : seq item) : seq item :=
  if n is n'.+1 then meets n' items ++ [seq meet a b | a <- items, b <- meets n' items] else [:: people].

(* With whatever else may be known: a windows and b rows. *)
Definition fits a b windows rows item :=
  all (fun w => all (fun r => enough (meet item (meet w r))) (meets b rows)) (meets a windows).

Definition goes windows rows out item :=
  ((m == 0) || fits d m.-1 windows rows item) && ((d == 0) || fits d.-1 m windows rows (join out item)).

(* Of a cohort: windows and rows that are out, and what was dropped. *)
Definition book := (seq item * seq item * seq name)%type.

(* The rows of a cohort that are here, and who has one of a name. *)
Definition of_cohort (h : person -> option cohort) (here : person -> seq (row payload)) (c : cohort) :=
  flatten [seq if h p == Some c then here p else [::] | p <- people].
Definition who (h : person -> option cohort) (here : person -> seq (row payload)) (c : cohort) (x : name) : item :=
  [seq p <- people | (h p == Some c) && has (fun r => (r.1, look r) == x) (here p)].
Definition in_order (s : seq nat) := sort leq (undup s).
Definition ends_of (rows : seq (row payload)) := in_order (map fst rows).
Definition looks_of (rows : seq (row payload)) e := in_order [seq look r | r <- rows & r.1 == e].

(* A window goes out item by item; one whose name was dropped is not tried. *)
Definition one (has_item : name -> item) windows e (stands : seq item * item * seq name) l :=
  let: (rows, out, gone) := stands in
  if (e, l) \in gone then stands
  else if goes windows rows out (has_item (e, l))
    then (if 0 < m then has_item (e, l) :: rows else rows, join out (has_item (e, l)), gone)
    else (rows, out, (e, l) :: gone).
Arguments one : simpl never.

Definition window (has_item : name -> item) looks (b : book) e : book :=
  let: (windows, rows, gone) := b in
  let: (rows', out, gone') := foldl (one has_item windows e) (rows, [::], gone) (looks e) in
  (out :: windows, rows', gone').

Definition after_all (b : book) h here c : book :=
  foldl (window (who h here c) (looks_of (of_cohort h here c))) b (ends_of (of_cohort h here c)).

Definition against : rule person payload :=
  @Rule person payload (cohort -> book) (fun _ => ([::], [::], [::])) (fun books _ h here =>
    let now := fun c => after_all (books c) h here c in
    (now, fun p r => if h p is Some c then (r.1, look r) \notin (now c).2 else true)).

(* --- It is fair: whoever exchanges all that people of a cohort have finds the same decided. --- *)

Section Swap.
Variable s : person -> person.
Hypothesis s_people : perm_eq [seq s p | p <- people] people.

Lemma s_in p : p \in people -> s p \in people.
Proof. by move=> pin; rewrite -(perm_mem s_people) map_f. Qed.

(* The people who have, where everybody has what s says, what these had. *)
Definition back (a : item) : item := [seq p <- people | s p \in a].

Lemma in_back a p : p \in people -> (p \in back a) = (s p \in a).
Proof. by rewrite mem_filter andbC => ->. Qed.

Lemma back_meet a b : back (meet a b) = meet (back a) (back b).
Proof. by apply: eq_in_filter => p pin; rewrite !in_back // mem_filter s_in ?andbT. Qed.

Lemma back_join a b : back (join a b) = join (back a) (back b).
Proof. by apply: eq_in_filter => p pin; rewrite !in_back // mem_filter s_in ?andbT. Qed.

Lemma back_people : back people = people.
Proof. by apply/all_filterP/allP => p; exact: s_in. Qed.

Lemma back_enough a : enough (back a) = enough a.
Proof.
rewrite /enough; have -> // : count (mem (back a)) people = count (mem a) people.
rewrite -[RHS](permP s_people) count_map; apply: eq_in_count => p pin /=; exact: in_back.
Qed.

Lemma back_meets n items : meets n (map back items) = map back (meets n items).
Proof.
elim: n => [|n IH] /=; first by rewrite back_people.
rewrite map_cat IH map_allpairs allpairs_mapl allpairs_mapr; congr (_ ++ _).
by apply: eq_allpairs => a b; rewrite back_meet.
Qed.

Lemma back_fits a b windows rows item :
  fits a b (map back windows) (map back rows) (back item) = fits a b windows rows item.
Proof.
rewrite /fits !back_meets all_map; apply: eq_all => w /=; rewrite all_map; apply: eq_all => r /=.
by rewrite -!back_meet back_enough.
Qed.

Lemma back_goes windows rows out item :
  goes (map back windows) (map back rows) (back out) (back item) = goes windows rows out item.
Proof. by rewrite /goes -back_join !back_fits. Qed.

Definition back_book (b : book) : book := (map back b.1.1, map back b.1.2, b.2).

Lemma back_one has_item has_item' windows e rows out gone l :
  (forall x, has_item' x = back (has_item x)) ->
  one has_item' (map back windows) e (map back rows, back out, gone) l =
  let: (rows', out', gone') := one has_item windows e (rows, out, gone) l in (map back rows', back out', gone').
Proof.
move=> hi; rewrite /one !hi back_goes; case: ifP => _ //; case: ifP => _ //.
by rewrite back_join; case: ifP.
Qed.

Lemma back_window has_item has_item' looks b e :
  (forall x, has_item' x = back (has_item x)) ->
  window has_item' looks (back_book b) e = back_book (window has_item looks b e).
Proof.
case: b => [[windows rows] gone] hi; rewrite /window /=.
have nobody : [::] = back [::] by rewrite /back filter_pred0.
rewrite {1}nobody; elim: (looks e) rows [::] gone {nobody} => [|l ls IH] rows out gone //=.
rewrite (back_one _ _ _ _ _ _ hi).
by case: (one has_item windows e (rows, out, gone) l) => [[rows' out'] gone']; rewrite IH.
Qed.

Lemma sorted_perm a b : perm_eq a b -> in_order a = in_order b.
Proof.
move=> ab; apply/perm_sortP; [exact: leq_total | exact: leq_trans | exact: anti_leq |].
by apply: perm_undup => x; rewrite (perm_mem ab).
Qed.

Section Rows.
Variables (h h' : person -> option cohort) (here here' : person -> seq (row payload)) (c : cohort).
Hypotheses (same_home : h' =1 h) (within : forall p, h (s p) = h p) (moved : forall p, here' p = here (s p)).

Lemma back_rows : perm_eq (of_cohort h' here' c) (of_cohort h here c).
Proof.
rewrite /of_cohort (eq_map (f2 := (fun p => if h p == Some c then here p else [::]) \o s)); last first.
  by move=> p /=; rewrite same_home within moved.
by rewrite map_comp; apply/perm_flatten/perm_map.
Qed.

Lemma back_who x : who h' here' c x = back (who h here c x).
Proof.
apply: eq_in_filter => p pin; rewrite mem_filter s_in // andbT.
by rewrite same_home within moved.
Qed.

Lemma back_after b : after_all (back_book b) h' here' c = back_book (after_all b h here c).
Proof.
rewrite /after_all /ends_of (sorted_perm (perm_map fst back_rows)) -/(ends_of _).
have looks e : looks_of (of_cohort h' here' c) e = looks_of (of_cohort h here c) e.
  by apply/sorted_perm/perm_map/perm_filter/back_rows.
elim: (ends_of _) b => [//|e es IH] b /=; rewrite -IH; congr foldl.
rewrite -(back_window _ _ _ back_who); rewrite /window.
by rewrite looks.
Qed.
End Rows.
End Swap.

Theorem against_fair : fair people against.
Proof.
exists (fun s a b => forall c, b c = back_book s (a c)); split=> // s a b n h h' here here' sp ab hh ws mv.
split=> [c|p r] /=; first by rewrite ab; exact: back_after.
rewrite hh ws; case: (h p) => // c.
by rewrite ab (back_after sp c hh ws mv).
Qed.

End Against.
Print Assumptions against_fair.
